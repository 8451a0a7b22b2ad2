"""The content hash of a tensor, computed independently of the TypeScript implementation."""

import json
import struct

import xxhash

DTYPE_BYTES = {"uint8": b"\0", "float32": b"\1"}


def u64(value):
    return struct.pack("<Q", value)


def content_hash(shape, dtype, metadata, data):
    """XXH3-64 (seed 0) of a tensor's header and bytes, as 16 hex digits.

    `dtype` is numpy's name, `metadata` the descriptor's (`{"Image": …}`, `{"Video": …}` or `{"Audio": …, "sample_rate": …}`), `data` the tensor's bytes.
    An image's header is rank, dimensions and dtype; a clip's and a sound's also carry the metadata as compact JSON. Python prints
    floats as the fleet does from 1e-4 up to 1e16, which the clips of the test stay within.
    """
    tensor = u64(len(shape)) + b"".join(u64(dimension) for dimension in shape) + DTYPE_BYTES[dtype]
    kind = next((kind for kind in ("Video", "Audio") if kind in metadata), None)
    if kind is not None:
        tag = kind.lower().encode()
        text = json.dumps(metadata[kind], separators=(",", ":")).encode()
        header = u64(len(tag)) + tag + tensor + u64(len(text)) + text + u64(len(data))
    else:
        header = tensor
    return xxhash.xxh3_64_hexdigest(header + data)
