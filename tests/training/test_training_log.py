"""What a run says: the console, metrics.jsonl without two truths, TensorBoard when asked for."""

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tests.training.toy import cpu_world, toy_settings

from regard.errors import UserError
from regard.training import Logs, MetricsFile, TrainRecord, ValidationRecord, build_log
from regard.training.console import LiveConsole, PlainConsole, build_console, describe, duration
from regard.training.log import TensorBoard
from regard.training.records import Log


def record(step: int, loss: float = 0.1 + 0.2) -> TrainRecord:
    return TrainRecord(step, 0.5, loss, 1.0, 1e-3, 0.7, 100, 12345.6, 9.0, 3723.0)


JUDGED = ValidationRecord(20, {"loss": 1.5, "bleu": 33.25}, True, 9.0, [("ein [bold]Hund", "a dog", "a cat")])


def speak(log: Log, start: int = 0) -> None:
    log.begin(start, 100)
    log.train(record(10))
    log.validation(JUDGED)
    log.note("something [else]")
    log.end()


def test_plain_lines_hold_everything() -> None:
    stream = io.StringIO()
    speak(PlainConsole(stream), start=5)
    said = stream.getvalue()
    assert "going on after step 5" in said
    assert "step 10/100  loss 0.3000  nll 1.0000  ppl 2.72  12,346 tok/s  lr 1.00e-03  1:02:03 left" in said
    assert "step 20  validation: loss 1.5000  bleu 33.2500  (best so far)" in said
    assert "ein [bold]Hund" in said and "a dog" in said and "a cat" in said and "something [else]" in said


def test_what_is_no_likelihood_has_no_perplexity() -> None:
    assert "ppl" in describe(record(10)) and "ppl" not in describe(replace(record(10), nll=500_000.0))


def test_control_characters_in_samples_are_drawn_not_obeyed() -> None:
    evil = ValidationRecord(20, {}, True, 9.0, [("\x1b[2Ja\x07", "b\r\n\x9b31m", "\x00")])
    plain, live = io.StringIO(), io.StringIO()
    PlainConsole(plain).validation(evil)
    LiveConsole(Console(file=live)).validation(evil)
    for said in (plain.getvalue(), live.getvalue()):
        assert "␛[2Ja␇" in said and "b␍␊␡31m" in said and "␀" in said
        assert not set(said) & {"\x1b", "\x07", "\r", "\x9b", "\x00"}


class Gone(io.StringIO):
    """A terminal that was closed."""

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


def test_a_terminal_that_is_gone_ends_no_training() -> None:
    speak(PlainConsole(Gone()), start=5)
    console = LiveConsole(Console(file=Gone(), width=80))
    console.note("nobody reads this")
    console.end()


def test_a_terminal_gets_a_live_line() -> None:
    stream = io.StringIO()
    speak(LiveConsole(Console(file=stream, force_terminal=True, width=200)))
    said = stream.getvalue()
    assert "10/100" in said and "ppl 2.72" in said and "ein [bold]Hund" in said and "something [else]" in said


def test_the_bar_moves_with_every_step_and_not_only_with_every_line() -> None:
    stream = io.StringIO()
    live = LiveConsole(Console(file=stream, force_terminal=True, width=200))
    live.begin(0, 100)
    live.step(7)
    live.end()
    assert "7/100" in stream.getvalue()


def test_the_console_looks_at_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    assert isinstance(build_console(io.StringIO()), PlainConsole)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert isinstance(build_console(io.StringIO()), LiveConsole)


def test_numbers_keep_every_bit(tmp_path: Path) -> None:
    speak(MetricsFile(tmp_path / "run" / "metrics.jsonl"))
    train, judged = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert train["loss"] == 0.1 + 0.2 != 0.3
    assert (train["kind"], train["step"], judged["kind"], judged["step"]) == ("train", 10, "validation", 20)
    assert judged["metrics"] == JUDGED.metrics and "samples" not in judged


def test_lines_after_the_resumed_step_are_cut_away(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path)
    for step in (10, 20, 30):
        file.train(record(step))
    with path.open("a") as stream:
        stream.write('{"kind": "train", "st')  # a process was killed while writing
    file.begin(20, 100)
    file.train(record(30, loss=9.0))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["step"], line["loss"] == 9.0) for line in lines] == [(10, False), (20, False), (30, True)]
    before = path.stat().st_ino
    file.begin(30, 100)
    assert path.stat().st_ino == before  # nothing to cut, nothing rewritten


def test_a_new_run_has_no_old_lines(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.jsonl")
    file.train(record(10))
    file.begin(0, 100)
    assert (tmp_path / "metrics.jsonl").read_text() == ""


def test_several_logs_hear_the_same() -> None:
    streams = [io.StringIO(), io.StringIO()]
    speak(Logs([PlainConsole(stream) for stream in streams]))
    assert streams[0].getvalue() == streams[1].getvalue() != ""
    speak(Logs())


def test_only_rank_0_speaks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = cpu_world()
    speak(build_log(toy_settings(), tmp_path, world))
    assert (tmp_path / "metrics.jsonl").exists() and capsys.readouterr().err
    other = type(world)(1, 2, 1, world.device, world.precision)
    speak(build_log(toy_settings(tensorboard=True), tmp_path / "other", other))
    assert not (tmp_path / "other").exists() and not capsys.readouterr().err


def test_tensorboard_is_named_when_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UserError, match=r"pip install regard\[tensorboard\]"):
        build_log(toy_settings(tensorboard=True), tmp_path, cpu_world())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_writes_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    speak(TensorBoard(tmp_path / "tensorboard"))
    (events,) = (tmp_path / "tensorboard").glob("events*")
    content = events.read_bytes()
    assert b"train/perplexity" in content and b"validation/bleu" in content


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0, 59.6, 61, 3723)] == ["0:00", "1:00", "1:01", "1:02:03"]
