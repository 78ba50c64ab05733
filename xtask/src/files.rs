//! Writes sets of generated files, or compares them with the committed ones.

use std::collections::BTreeMap;
use std::path::Path;

/// File name (with folders) -> content.
pub(crate) type Files = BTreeMap<String, String>;

/// Reads the files below a folder that have this extension.
pub(crate) fn read(folder: &Path, extension: &str) -> Result<Files, String> {
    fn walk(base: &Path, folder: &Path, extension: &str, out: &mut Files) -> std::io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                walk(base, &path, extension, out)?;
            } else if path.extension().is_some_and(|e| e == extension) {
                let name = path
                    .strip_prefix(base)
                    .unwrap_or(&path)
                    .display()
                    .to_string();
                out.insert(name, std::fs::read_to_string(&path)?);
            }
        }
        Ok(())
    }
    let mut out = Files::new();
    if folder.exists() {
        walk(folder, folder, extension, &mut out)
            .map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    Ok(out)
}

/// Writes the set and removes files that are not in it. With `check`, only reports differences.
pub(crate) fn write_or_check(
    folder: &Path,
    extension: &str,
    files: &Files,
    check: bool,
) -> Result<(), String> {
    let old = read(folder, extension)?;
    let mut changed: Vec<&String> = files
        .iter()
        .filter(|(name, text)| old.get(*name) != Some(*text))
        .map(|(name, _)| name)
        .collect();
    let gone: Vec<&String> = old
        .keys()
        .filter(|name| !files.contains_key(*name))
        .collect();
    if check {
        changed.extend(gone);
        return match changed.as_slice() {
            [] => Ok(()),
            names => Err(format!(
                "{} differs from what would be generated: {names:?}",
                folder.display()
            )),
        };
    }
    let io = |e: std::io::Error| format!("{}: {e}", folder.display());
    for name in changed {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(io)?;
        std::fs::write(path, &files[name]).map_err(io)?;
    }
    for name in gone {
        std::fs::remove_file(folder.join(name)).map_err(io)?;
    }
    Ok(())
}
