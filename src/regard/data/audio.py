"""Recordings as features: samples of a WAV file, or of a generated recording, become frames of a log-mel filterbank.

    X_t(k) = FFT of samples t h ... t h + w - 1, times a Hann window
    f_t(m) = log(eps + sum_k M(m, k) |X_t(k)|^2)

M(m, k) are F triangles, equally wide on the mel scale, mel(f) = 2595 log10(1 + f / 700) (Davis & Mermelstein 1980).
Then each band m gets mean 0 and variance 1 over the recording, so that loudness does not matter.

T frames, F bands, w samples of a window, h samples between the starts of two windows.
"""

import wave
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike, NDArray

from regard.data.arrays import Array, flatten, smallest_unsigned
from regard.data.examples import Example
from regard.data.settings import AudioDataSettings
from regard.data.store import Encoded
from regard.data.tones import PREFIX, Samples, record_tones
from regard.errors import UserError
from regard.reading import open_regular
from regard.text.symbols import EOS
from regard.text.tokenizer import Tokenizer

Frames = NDArray[np.float32]
"""(T, F)"""
EPSILON = 1e-6
CONVERT = "convert it: `ffmpeg -i FILE -ac 1 -ar {rate} -c:a pcm_s16le NEW.wav`"


def audio_path(example: Example) -> Path:
    """The WAV file of an example: relative to the folder of its table, if it has one."""
    return Path(example.get("folder", "")) / str(example["audio"])


def is_generated(example: Example) -> bool:
    return str(example["audio"]).startswith(PREFIX)


def read_wav(path: Path, rate: int, max_seconds: float) -> Samples:
    """The samples of a WAV file with 16 bits, one channel and `rate` samples per second, between -1 and 1. A longer
    recording is read up to one sample beyond `max_seconds`."""
    remedy = CONVERT.format(rate=rate)

    def error(problem: str) -> UserError:
        return UserError(f"{path}: {problem}", remedy, code="bad-audio", where=path)

    try:
        with open_regular(path) as stream, wave.open(stream) as file:
            form = (file.getnchannels(), 8 * file.getsampwidth(), file.getframerate())
            if form != (1, 16, rate):
                found = f"{form[0]} channel{'s' * (form[0] != 1)} of {form[1]} bits at {form[2]} Hz"
                raise error(f"the recording has {found}, but the recipe needs 1 channel of 16 bits at {rate} Hz")
            count = min(file.getnframes(), int(max_seconds * rate) + 1)
            content = file.readframes(count)
    except (wave.Error, EOFError) as cause:
        raise error(f"is not a WAV file with PCM samples ({str(cause) or 'it ends too early'})") from cause
    if len(content) < 2 * max(1, count):
        raise error(f"has {len(content) // 2} samples, but its header says {count}" if count else "has no samples")
    return (np.frombuffer(content, "<i2") / np.float32(1 << 15)).astype(np.float32)


@lru_cache
def mel_filters(bands: int, size: int, rate: int) -> Array:
    """M (F, size / 2 + 1): triangles over the frequencies of an FFT of `size` samples."""
    highest = 2595 * np.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, highest, bands + 2) / 2595) - 1)  # Hz
    frequencies = np.arange(size // 2 + 1) * rate / size
    left, centre, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (frequencies - left) / (centre - left), (right - frequencies) / (right - centre)
    return np.maximum(0, np.minimum(rising, falling))


def log_mel(samples: Samples, settings: AudioDataSettings) -> Frames:
    """Samples -> normalised frames (T, F); samples shorter than a window are filled up with zeros to one frame."""
    rate = settings.sample_rate
    window, hop = (max(1, round(rate * ms / 1000)) for ms in (settings.window_ms, settings.hop_ms))
    samples = np.pad(samples, (0, max(0, window - len(samples))))
    size = 1 << (window - 1).bit_length()
    cut = np.lib.stride_tricks.sliding_window_view(samples, window)[::hop] * np.hanning(window)  # (T, w)
    power = np.abs(np.fft.rfft(cut, size)) ** 2  # (T, size / 2 + 1)
    features = np.log(EPSILON + power @ mel_filters(settings.bands, size, rate).T)  # (T, F)
    centred = features - features.mean(axis=0)
    return (centred / (features.std(axis=0) + 1e-3)).astype(np.float32)


def read_frames(example: Example, settings: AudioDataSettings) -> Frames:
    """The frames of an example; a UserError if the recording cannot be read as the settings say, or is too long."""
    rate, longest = settings.sample_rate, settings.max_seconds
    generated = is_generated(example)
    samples = record_tones(example["audio"], rate) if generated else read_wav(audio_path(example), rate, longest)
    if len(samples) > longest * rate:
        problem = f"{audio_path(example)} is longer than data.max_seconds = {longest:g}"
        raise UserError(problem, "cut the recording into parts", code="too-long", where=audio_path(example))
    return log_mel(samples, settings)


@dataclass(frozen=True)
class RecordingEncoder:
    """Encodes {"audio", "text"}: columns `src`, all frames end to end, and `tgt`, the tokens with an end symbol.

    If `filtered`, recordings that training cannot use are left out and counted by reason: too long, without a text, or
    too short for the tokens of their text.
    """

    tokenizer: Tokenizer
    settings: AudioDataSettings
    filtered: bool
    stride: int = 0
    """Frames that a token needs at least, for CTC; 0 if there is no such bound."""

    @cached_property
    def identity(self) -> str:
        names = ("sample_rate", "bands", "window_ms", "hop_ms", "max_seconds")
        values = [getattr(self.settings, name) for name in names]
        return repr(("recordings", self.tokenizer.to_json(), values, self.filtered, self.stride))

    @property
    def dtypes(self) -> Mapping[str, DTypeLike]:
        return {"src": np.float32, "tgt": smallest_unsigned(len(self.tokenizer))}

    def __call__(self, examples: list[Example]) -> Encoded:
        dropped: Counter[str] = Counter()
        frames, targets = [], []
        for example in examples:
            tokens = self.tokenizer.encode(example["text"])
            try:
                found = read_frames(example, self.settings)
            except UserError as error:
                if not self.filtered or error.code != "too-long":
                    raise
                dropped["too_long"] += 1
                continue
            if reason := self._reason(len(found), tokens):
                dropped[reason] += 1
                continue
            frames.append(found)
            targets.append([*tokens, EOS])
        values = np.concatenate([item.ravel() for item in frames]) if frames else np.empty(0, np.float32)
        sources = values, np.array([item.size for item in frames], np.int64)
        columns = {"src": sources, "tgt": flatten(targets, self.dtypes["tgt"])}
        return Encoded(columns, len(examples), dropped)

    def _reason(self, frames: int, tokens: list[int]) -> str:
        """Why training cannot use a recording; "" if it can."""
        if not self.filtered:
            return ""
        repeated = sum(a == b for a, b in pairwise(tokens))  # with a blank between them
        return "empty" if not tokens else "too_short" if frames < self.stride * (len(tokens) + repeated) else ""
