"""regard chat: a conversation with a run that was trained on dialogues."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from regard.cli.attention import draw_map, map_values
from regard.cli.options import AsJson, ChatOptions, ModelOptions, RunFolder
from regard.cli.screen import print_error, report, to_json
from regard.cli.shell import INTERRUPTED
from regard.cli.streams import STDIO, prompt_lines, read_lines
from regard.errors import UserError
from regard.messages import Message, localize

if TYPE_CHECKING:
    from regard.run.chat import Conversation, Reply

INVITATION = Message(
    "Type a line, then Enter. /why draws the attention of the last reply, /reset starts again, /quit or Ctrl-D ends."
)
RESET, WHY, QUIT = "/reset", "/why", "/quit"


def chat(run: RunFolder, search: ChatOptions, model: ModelOptions, as_json: AsJson = False) -> None:
    """Talk with a run that was trained on dialogues."""
    from regard.run.chat import Conversation

    conversation = Conversation(model.load_translator(run), **search.changes())
    lines = prompt_lines(localize(INVITATION)) if sys.stdin.isatty() else read_lines(STDIO)
    try:
        converse(conversation, lines, as_json)
    except KeyboardInterrupt:
        report()
        raise typer.Exit(INTERRUPTED) from None


def converse(conversation: "Conversation", lines: Iterator[str], as_json: bool) -> None:
    """Reply to every line and run every command, until the input ends or /quit."""
    last: Reply | None = None
    for line in lines:
        word, output = line.strip(), ""
        if word == QUIT:
            return
        if word == RESET:
            conversation.reset()
            last = None
            report(Message("a new conversation"))
        elif word == WHY:
            output = explain(conversation, last, as_json)
        elif word.startswith("/"):
            report(
                Message("unknown command {word}; the commands are {names}", word=word, names=f"{RESET}, {WHY}, {QUIT}")
            )
        elif word:
            last = conversation.reply_to(line)
            values = {"reply" if name == "text" else name: value for name, value in asdict(last).items()}
            values.pop("tokens")
            output = to_json(values) if as_json else last.text
        if output or not sys.stdin.isatty():
            print(output, flush=True)


def explain(conversation: "Conversation", last: "Reply | None", as_json: bool) -> str:
    """All attention weights of the last reply as JSON; else its cross-attention is drawn, and there is no output."""
    if last is None:
        report(Message("there is no reply yet"))
        return ""
    try:
        maps = conversation.explain(last)
    except UserError as error:
        print_error(error)
        return ""
    if as_json:
        return to_json({"source": last.source, "reply": last.text, "maps": list(map(map_values, maps))})
    cross = next((item for item in maps if item.name == "cross"), None)
    if cross is None:
        report(Message("this model has no cross-attention"))
        return ""
    drawing = f"{draw_map(cross)}\n"
    if sys.stdin.isatty():
        return drawing
    print(drawing, file=sys.stderr, flush=True)
    return ""
