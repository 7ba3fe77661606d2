"""Recordings: WAV files are read strictly, features equal torch's, generated recordings are always the same."""

import hashlib
import wave
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.tiny import write_wav

from regard.data import builtin
from regard.data.audio import RecordingEncoder, log_mel, mel_filters, read_frames, read_wav
from regard.data.fields import RECORDINGS
from regard.data.formats import read_examples
from regard.data.settings import AudioDataSettings
from regard.data.sources import Source, Split
from regard.data.tones import HIGH, LOW, record_tones
from regard.errors import UserError
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings

SETTINGS = AudioDataSettings(sample_rate=8000, bands=24)


def test_a_wav_file_gives_its_samples(tmp_path: Path) -> None:
    samples = record_tones("tones:1:3 0 3", 8000)
    path = write_wav(tmp_path / "a.wav", samples)
    assert np.abs(read_wav(path, 8000, 30) - samples).max() <= 1 / 32768


@pytest.mark.parametrize(
    ("channels", "width", "rate"), [(2, 2, 8000), (1, 1, 8000), (1, 2, 16000)], ids=["stereo", "8 bits", "rate"]
)
def test_other_forms_are_refused(channels: int, width: int, rate: int, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(bytes(800 * channels * width))
    with pytest.raises(UserError) as error:
        read_wav(path, 8000, 30)
    assert error.value.code == "bad-audio" and "ffmpeg" in error.value.remedy


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = write_wav(tmp_path / "a.wav", np.zeros(800, np.float32))
    content = path.read_bytes()
    for name, damaged in {"cut": content[:-100], "text": b"hello", "empty": b"", "header": content[:44]}.items():
        (tmp_path / f"{name}.wav").write_bytes(damaged)
        with pytest.raises(UserError) as error:
            read_wav(tmp_path / f"{name}.wav", 8000, 30)
        assert error.value.code == "bad-audio", name
    with pytest.raises(UserError) as error:
        read_wav(tmp_path / "missing.wav", 8000, 30)
    assert "missing.wav" in str(error.value.where)


def test_features_equal_those_of_torch() -> None:
    samples = record_tones("tones:5:1 9", 8000)
    spectrum = torch.stft(
        torch.tensor(samples), 256, 80, 200, torch.hann_window(200, periodic=False), center=False, return_complex=True
    )  # torch centres the window in the FFT, which changes the phase only, and leaves out frames before the last
    power = spectrum.abs().square().T.double()
    count = len(power)
    expected = torch.log(1e-6 + power @ torch.tensor(mel_filters(24, 256, 8000)).T)
    start = (256 - 200) // 2
    ours = log_mel(samples[start:], SETTINGS)[:count]
    both = [x - x.mean(0) for x in (expected, torch.tensor(ours).double())]
    scale = expected.std(0, correction=0) / torch.tensor(ours).double().std(0, correction=0)
    assert float((both[0] - both[1] * scale).abs().max()) < 0.02


def test_filters_cover_the_band_of_a_tone() -> None:
    filters = mel_filters(24, 256, 8000)
    assert filters.shape == (24, 129) and filters.min() >= 0
    assert (filters.argmax(axis=1)[1:] >= filters.argmax(axis=1)[:-1]).all()


def test_a_digit_has_its_two_frequencies() -> None:
    spectrum = np.abs(np.fft.rfft(record_tones("tones:3:5 5 5", 8000), 8000))  # bin = Hz
    low, high = spectrum[300:1250].argmax() + 300, spectrum[1350:3400].argmax() + 1350
    assert abs(low / LOW[1] - 1) < 0.15 and abs(high / HIGH[1] - 1) < 0.15


def test_generated_recordings_are_always_the_same() -> None:
    digest = hashlib.sha256(record_tones("tones:1:0 1 2", 8000).round(3).tobytes()).hexdigest()
    assert digest == hashlib.sha256(record_tones("tones:1:0 1 2", 8000).round(3).tobytes()).hexdigest()
    with pytest.raises(UserError, match="tones:1:x"):
        record_tones("tones:1:x", 8000)


def test_no_digits_are_in_two_splits() -> None:
    splits: tuple[Split, ...] = ("train", "valid", "test")
    texts = [{example["text"] for example in builtin.examples("tones", split)} for split in splits]
    assert not texts[0] & texts[1] and not texts[0] & texts[2] and not texts[1] & texts[2]
    assert builtin.TONES["train"] == 3000


def test_paths_are_relative_to_the_table_and_must_exist(tmp_path: Path) -> None:
    write_wav(tmp_path / "clips" / "a.wav", np.zeros(800, np.float32))
    table = tmp_path / "train.tsv"
    table.write_text("audio\ttext\nclips/a.wav\tone two\n", encoding="utf-8")
    (example,) = read_examples([Source(file=str(table))], Path(), RECORDINGS)
    assert example == {"audio": "clips/a.wav", "folder": str(tmp_path), "text": "one two"}
    assert read_frames(example, SETTINGS).shape == (8, 24)
    table.write_text("audio\ttext\nclips/b.wav\tone\n", encoding="utf-8")
    with pytest.raises(UserError) as error:
        list(read_examples([Source(file=str(table))], Path(), RECORDINGS))
    assert error.value.code == "missing-file" and str(error.value.where).endswith(":2")


def test_what_training_cannot_use_is_counted() -> None:
    tokenizer = train_tokenizer(["one two three"], TextSettings(kind="word", min_frequency=1))
    settings = SETTINGS.model_copy(update={"max_seconds": 1.0})
    examples = [
        {"audio": "tones:1:1 2", "text": "one two"},
        {"audio": "tones:1:1 2 3 4 5 6", "text": "one"},  # longer than a second
        {"audio": "tones:1:1", "text": ""},
        {"audio": "tones:1:1", "text": "one two three " * 9},
    ]
    encoded = RecordingEncoder(tokenizer, settings, filtered=True, stride=4)(examples)
    assert encoded.counts == {"too_long": 1, "empty": 1, "too_short": 1} and encoded.examples == 4
    values, lengths = encoded.columns["src"]
    assert values.dtype == np.float32 and lengths.tolist() == [24 * len(read_frames(examples[0], settings))]
    with pytest.raises(UserError) as error:
        RecordingEncoder(tokenizer, settings, filtered=False)(examples)
    assert error.value.code == "too-long"
