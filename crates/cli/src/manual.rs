//! The commands `completions` and `man`, which describe the others.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::Cli;
use crate::support::bad_usage::BadUsage;
use crate::support::output::say;
use crate::support::text::quoted;

/// Prints the completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eventcast completions bash > ~/.local/share/bash-completion/completions/eventcast
  eventcast completions fish > ~/.config/fish/completions/eventcast.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints a man page, or writes all of them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eventcast man events get | man -l -
  eventcast man --output ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The command whose page to print [default: eventcast itself]
    #[arg(conflicts_with = "output")]
    command: Vec<String>,
    /// Write a page for each command into this folder
    #[arg(long, short, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<bool, Box<dyn Error>> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "eventcast", &mut text);
    say(&String::from_utf8(text)?).map(|()| true)
}

pub(crate) fn man(args: &ManArgs) -> Result<bool, Box<dyn Error>> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    if let Some(folder) = &args.output {
        fs::create_dir_all(folder)
            .and_then(|()| write_pages(&root, folder))
            .map_err(|error| format!("cannot write the man pages to {}: {error}", folder.display()))?;
        return Ok(true);
    }
    let mut command = &root;
    for name in &args.command {
        command = command.find_subcommand(name).ok_or_else(|| {
            let words = quoted(&args.command.join(" "));
            BadUsage(format!("there is no command {words}: see 'eventcast --help'"))
        })?;
    }
    let mut text = Vec::new();
    page(command).render(&mut text)?;
    say(&String::from_utf8(text)?).map(|()| true)
}

fn page(command: &Command) -> Man {
    Man::new(command.clone()).source(concat!("eventcast ", env!("CARGO_PKG_VERSION")))
}

fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    command.get_subcommands().try_for_each(|command| write_pages(command, folder))?;
    page(command).generate_to(folder).map(|_| ())
}
