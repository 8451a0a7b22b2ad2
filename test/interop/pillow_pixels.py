#!/usr/bin/env python3
"""Prints what Pillow makes of each image file named, one JSON line each, to compare with what was read over NIXL.

`sha256` is of all channels in the file's own mode, `sha256_colours` without a fourth channel, which is what Dynamo's
client hands on; `content_hash` is of all channels.
"""

import hashlib
import json
import sys

import numpy as np
from PIL import Image

from content_hash import content_hash


def sha256(array):
    return hashlib.sha256(array.tobytes()).hexdigest()


for path in sys.argv[1:]:
    with Image.open(path) as image:
        pixels = np.asarray(image)
        if pixels.ndim == 2:
            pixels = pixels[..., np.newaxis]
        result = {
            "mode": image.mode,
            "shape": list(pixels.shape),
            "sha256": sha256(pixels),
            "sha256_colours": sha256(pixels[..., :3]),
            "content_hash": content_hash(pixels.shape, str(pixels.dtype), {"Image": {}}, pixels.tobytes()),
        }
    print(json.dumps(result), flush=True)
