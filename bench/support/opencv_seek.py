"""Frames of a clip by OpenCV's seek, as many Python servers take them: what bench/pipeline.ts --opencv measures beside ours.

python3 opencv_seek.py FILE FRAMES ITERATIONS     prints {"median_ms"}: opening, seeking to each frame, decoding, RGB
"""
import json
import statistics
import sys
import time

import cv2


def frames_of(path, count):
    clip = cv2.VideoCapture(path)
    total = int(clip.get(cv2.CAP_PROP_FRAME_COUNT))
    frames = []
    for index in range(count):
        clip.set(cv2.CAP_PROP_POS_FRAMES, index * (total - 1) // max(1, count - 1))
        found, frame = clip.read()
        if found:
            frames.append(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
    clip.release()
    return frames


path, count, iterations = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
times = []
for _ in range(iterations):
    start = time.perf_counter()
    found = len(frames_of(path, count))
    times.append((time.perf_counter() - start) * 1000)
    assert found == count, f"{found} of {count} frames"
print(json.dumps({"median_ms": statistics.median(times)}))
