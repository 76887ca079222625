"""Print what completes calmstream in a shell.

bash: eval "$(calmstream completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc, after compinit;
fish: calmstream completion fish > ~/.config/fish/completions/calmstream.fish
"""

from __future__ import annotations

import argparse

from argcomplete.shell_integration import shellcode


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")


def run(args: argparse.Namespace) -> int:
    print(shellcode(["calmstream"], shell=args.shell))  # noqa: T201 - for a shell
    return 0
