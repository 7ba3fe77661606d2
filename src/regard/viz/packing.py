"""Numbers for the script of a page: arrays as base64, so that no digit is lost and files stay small."""

import base64

import numpy as np
from numpy.typing import ArrayLike

from regard.files import JsonObject


def pack_array(values: ArrayLike) -> JsonObject:
    """An array as its shape and its float32 numbers."""
    array = np.ascontiguousarray(values, dtype="<f4")
    return {"shape": list(array.shape), "floats": base64.b64encode(array.tobytes()).decode("ascii")}


def unpack_array(packed: JsonObject) -> "np.typing.NDArray[np.float32]":
    """The array that `pack_array` wrote."""
    return np.frombuffer(base64.b64decode(packed["floats"]), dtype="<f4").reshape(packed["shape"])
