//! Runs the embedded broker until Enter is pressed or the input ends:
//! `cargo run -p thalweg-broker --example serve -- [--nodes N] [--port P] [--host H] [name=value ...]`
#![allow(clippy::print_stdout)]

use std::io::Read;

use thalweg_broker::{BrokerConfig, EmbeddedBroker};

fn main() {
    match parse().and_then(|config| EmbeddedBroker::start(config).map_err(|e| e.to_string())) {
        Ok(broker) => {
            println!("{}", broker.bootstrap_servers());
            let mut rest = Vec::new();
            // Only its end matters.
            let _ = std::io::stdin().read_to_end(&mut rest);
            broker.close();
        }
        Err(message) => {
            eprintln!("{message}");
            std::process::exit(1);
        }
    }
}

fn parse() -> Result<BrokerConfig, String> {
    let mut config = BrokerConfig::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("not a number: {text}"));
        match word.as_str() {
            "--host" => config.host = value()?,
            "--nodes" => config.nodes = number(value()?)?,
            "--port" => config.port = number(value()?)? as u16,
            option => match option.split_once('=') {
                Some((name, value)) => {
                    config.options.insert(name.to_owned(), value.to_owned());
                }
                None => return Err(format!("what is {option}?")),
            },
        }
    }
    Ok(config)
}
