#!/usr/bin/env python3
"""Reads media over NIXL with Dynamo's own client, out of the memory of the process that printed the descriptors.

Takes descriptors on stdin, one JSON object a line. Prints one JSON line per read: `index` of the descriptor, `shape`,
`dtype` and `metadata` as the client returns them, `sha256` of the bytes, and `content_hash` computed over what was read
(null where the client dropped a fourth channel, so that the hashed bytes are not all there).
"""

import argparse
import asyncio
import hashlib
import importlib.metadata
import json
import os
import signal
import sys

import numpy as np
import torch
from dynamo import nixl_connect
from dynamo.common.utils.media_nixl import read_decoded_media_via_nixl

from content_hash import content_hash


def results_stream():
    """The real stdout. Descriptor 1 itself becomes stderr, because native code under NIXL may print to it."""
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return stream


async def read(connector, index, descriptor):
    array, metadata = await read_decoded_media_via_nixl(connector, descriptor, return_metadata=True)
    data = np.ascontiguousarray(array).tobytes()
    shape, dtype = list(array.shape), str(array.dtype)
    return {
        "index": index,
        "shape": shape,
        "dtype": dtype,
        "metadata": metadata,
        "sha256": hashlib.sha256(data).hexdigest(),
        "content_hash": content_hash(shape, dtype, metadata, data) if shape == descriptor["shape"] else None,
    }


async def die_in_flight(reads):
    """SIGKILL to this process, unless all is read already. Runs when every read has been posted.

    Only a transfer that goes on by itself is caught in flight (TCP, RDMA): UCX copies through shared memory at once,
    while the read is posted. One over TCP may be quick enough to escape too, so ask for many rounds.
    """
    if any(not task.done() for task in reads):
        os.kill(os.getpid(), signal.SIGKILL)


async def main(options, descriptors, out):
    connector = nixl_connect.Connector()
    for _ in range(options.repeat):
        reads = [read(connector, index, descriptor) for index, descriptor in enumerate(descriptors)]
        if options.die_in_flight:
            reads = [asyncio.create_task(task) for task in reads]
            await asyncio.gather(*reads, die_in_flight(reads))
        elif options.concurrent:
            for result in await asyncio.gather(*reads):
                print(json.dumps(result), file=out, flush=True)
        else:
            for task in reads:
                print(json.dumps(await task), file=out, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concurrent", action="store_true", help="start all reads at once")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="read everything N times")
    parser.add_argument("--die-in-flight", action="store_true", help="SIGKILL itself in the first round that has reads under way")
    parser.add_argument("--versions", action="store_true", help="print the versions that do the reading, and end")
    options = parser.parse_args()
    out = results_stream()
    if options.versions:
        names = ["ai-dynamo", "nixl", "numpy", "pydantic", "pillow"]
        versions = {name: importlib.metadata.version(name) for name in names}
        print(json.dumps({**versions, "torch": torch.__version__}), file=out, flush=True)
    else:
        lines = [json.loads(line) for line in sys.stdin if line.strip()]
        asyncio.run(main(options, lines, out))
