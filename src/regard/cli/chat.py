"""regard chat: a conversation with a run that has learnt to reply."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from regard.cli.inspect import draw, map_values
from regard.cli.options import AsJson, ModelOptions, RunFolder, SearchOptions
from regard.cli.screen import say, to_json
from regard.cli.train import INTERRUPTED
from regard.cli.translate import STANDARD, asked, lines_of

if TYPE_CHECKING:
    from regard.run.chat import Conversation, Reply

INVITATION = """\
Say something, then Enter. /why shows what the last reply was read from, /reset begins anew, /quit or Ctrl-D ends.
(直接输入一句话，按回车即可聊天。)"""
RESET, WHY, QUIT = "/reset", "/why", "/quit"


def chat(run: RunFolder, search: SearchOptions, model: ModelOptions, as_json: AsJson = False) -> None:
    """Talk with a run that was trained on dialogues.

    It replies to each line, and reads as many turns before its reply as in training. Replies are drawn as the run's
    recipe says unless an option says otherwise; a --seed always draws the same conversation. /reset begins anew, /why
    draws what the last reply was read from (a row is a piece of the reply, a column a piece of what was said, ␉ stands
    between turns), /quit, Ctrl-D or Ctrl-C ends. Without a terminal each line of stdin gets one line of stdout, blank
    for blank. With --json a reply is one object: turn, said, source (what was read), reply, score and finished.

    \b
    Examples:
      regard chat runs/self-dialogue
      regard chat runs/self-dialogue --temperature 0.7 --top-p 0.9 --seed 7
      regard chat runs/self-dialogue --search greedy
      echo "Do you like music?" | regard chat runs/self-dialogue --json
    """
    from regard.run.chat import Conversation

    talk = Conversation(model.load(run), **search.changes())
    try:
        converse(talk, said(), as_json)
    except KeyboardInterrupt:
        say()
        raise typer.Exit(INTERRUPTED) from None


def said() -> Iterator[str]:
    """The lines of stdin; where a person types them, invited."""
    return asked(INVITATION) if sys.stdin.isatty() else lines_of(STANDARD)


def converse(talk: "Conversation", lines: Iterator[str], as_json: bool) -> None:
    """Answer every line and obey every command, until there is no more or one says so."""
    last: Reply | None = None
    for line in lines:
        word = line.strip()
        if word == QUIT:
            return
        if word == RESET:
            talk.reset()
            last = None
            say("a new conversation")
        elif word == WHY:
            explain(talk, last, as_json)
        elif word.startswith("/"):
            say(f"there is no command {word}: {RESET}, {WHY} and {QUIT} are those there are")
        elif word:
            last = talk.answer(line)
            print(to_json(values(last)) if as_json else last.text, flush=True)
        elif not sys.stdin.isatty():
            print(flush=True)


def values(reply: "Reply") -> dict[str, object]:
    """What there is to say about a reply; its tokens are nobody's business."""
    given = asdict(reply)
    del given["tokens"]
    return {"reply" if name == "text" else name: value for name, value in given.items()}


def explain(talk: "Conversation", last: "Reply | None", as_json: bool) -> None:
    """Draw the attention of the last reply to what was said, or give all of it as JSON."""
    if last is None:
        say("nothing was replied yet")
        return
    maps = talk.why(last)
    cross = next((found for found in maps if found.name == "cross"), None)
    if as_json:
        print(to_json({"source": last.source, "reply": last.text, "maps": list(map(map_values, maps))}), flush=True)
    elif cross is None:
        say("this model has no attention to what was said")
    else:
        print(f"{draw(cross)}\n", flush=True)
