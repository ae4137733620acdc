//! The `completions` and `man` commands, which generate documentation for the other commands.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::Command;
use clap::builder::{Resettable, StyledStr};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::support::bad_usage::BadUsage;
use crate::support::output::say;
use crate::support::text::quoted;

/// Generate a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eventcast completions bash >> ~/.bash_completion
  eventcast completions fish > ~/.config/fish/completions/eventcast.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell to generate completions for
    shell: Shell,
}

/// Print a man page, or write all man pages to a directory
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eventcast man events get | man -l -
  eventcast man --output ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The command to print the page for [default: eventcast itself]
    #[arg(conflicts_with = "output")]
    command: Vec<String>,
    /// Write a page for each command to this directory
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Prints a completion script for `command`.
pub(crate) fn completions(args: &CompletionsArgs, command: &mut Command) -> Result<bool, Box<dyn Error>> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, command, "eventcast", &mut text);
    say(&String::from_utf8(text)?).map(|()| true)
}

/// Prints a man page of `command`, or writes all of its man pages.
pub(crate) fn man(args: &ManArgs, command: Command) -> Result<bool, Box<dyn Error>> {
    let mut root = command.disable_help_subcommand(true);
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
            BadUsage(format!("unknown command {words}: see 'eventcast --help'"))
        })?;
    }
    say(&String::from_utf8(page(command)?.1)?).map(|()| true)
}

/// Returns the file name and the contents of a man page.
fn page(command: &Command) -> io::Result<(String, Vec<u8>)> {
    let end = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
    // The man page generator would reflow the lines of the examples into paragraphs.
    let none = || Resettable::<StyledStr>::Reset;
    let command = command.clone().after_help(none()).after_long_help(none());
    let man = Man::new(command).source(concat!("eventcast ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render(&mut page)?;
    if let Some(end) = end {
        let mut section = Roff::new();
        section.control("SH", ["EXAMPLES AND NOTES"]).control("nf", []);
        for line in end.lines() {
            section.text([roman(line)]);
        }
        section.control("fi", []).to_writer(&mut page)?;
    }
    Ok((man.get_filename(), page))
}

fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    command.get_subcommands().try_for_each(|command| write_pages(command, folder))?;
    let (name, page) = page(command)?;
    fs::write(folder.join(name), page)
}
