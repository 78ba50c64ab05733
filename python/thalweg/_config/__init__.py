"""The table of options, and what `thalweg.config` needs to check it. Private."""
