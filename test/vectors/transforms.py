"""Makes transforms.json and the media named in it: what Pillow 13.0.0 makes of small pictures under the settings of images.

Run in test/vectors: python3 transforms.py ../media CMYK.icc, with the profile that libvips calls "cmyk". Exact levels are given
by their SHA-256, others as base64 of zlib. cmyk_stripped.jpg is in that profile's colours but without it, for its size.
"""
import base64
import hashlib
import io
import json
import struct
import sys
import zlib
from pathlib import Path

from PIL import Image, ImageCms, ImageOps

media, cmyk_icc = Path(sys.argv[1]), Path(sys.argv[2]).read_bytes()
vectors = {}


def put(name, settings, image, exact=True):
    shape = [image.height, image.width, len(image.getbands())]
    if exact:
        levels = {"sha256": hashlib.sha256(image.tobytes()).hexdigest()}
    else:
        levels = {"levels": base64.b64encode(zlib.compress(image.tobytes(), 9)).decode()}
    vectors.setdefault(name, []).append({"settings": settings, "shape": shape, **levels})


def gray_profile():
    """A profile for grey with gamma 1.8 (ICC.1:2022, 8.4.3)."""
    curve = b"curv" + bytes(4) + struct.pack(">IH", 1, int(1.8 * 256)) + bytes(2)
    white = b"XYZ " + bytes(4) + struct.pack(">iii", 63190, 65536, 54061)
    text = b"desc" + bytes(4) + struct.pack(">I", 5) + b"grey\0" + bytes(79)
    text += bytes(-len(text) % 4)
    tags, at, data = [], 128 + 4 + 12 * 3, b""
    for name, content in ((b"desc", text), (b"wtpt", white), (b"kTRC", curve)):
        tags.append(name + struct.pack(">II", at + len(data), len(content)))
        data += content
    body = struct.pack(">I", 3) + b"".join(tags) + data
    header = struct.pack(">I", 128 + len(body)) + b"lcms" + bytes.fromhex("02400000") + b"mntrGRAYXYZ " + bytes(12) + b"acsp"
    header += bytes(28) + struct.pack(">iii", 63190, 65536, 54061)
    return header + bytes(128 - len(header)) + body


def to_srgb(image, mode):
    source = ImageCms.ImageCmsProfile(io.BytesIO(image.info["icc_profile"]))
    return ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode=mode)


def exif(orientation):
    data = Image.Exif()
    data[274] = orientation
    return data.tobytes()


picture = Image.open(media / "rgb.png")
swapped = Image.open(media / "png_icc_swapped.png").info["icc_profile"]
for extension, options in (("jpg", {"quality": 90}), ("png", {}), ("webp", {"lossless": True}), ("tiff", {}), ("avif", {})):
    for orientation in range(1, 9) if extension in ("jpg", "avif") else (5, 6):
        name = f"orientation{orientation}.{extension}"
        picture.save(media / name, exif=exif(orientation), **options)
        put(name, {"auto_orient": True}, ImageOps.exif_transpose(Image.open(media / name)), extension != "avif")
for extension, options in (("webp", {"lossless": True}), ("tiff", {})):
    name = f"icc_swapped.{extension}"
    picture.save(media / name, icc_profile=swapped, **options)
for name in ("icc_swapped.webp", "icc_swapped.tiff", "png_icc_swapped.png", "jpg_icc_swapped.jpg", "jpg_icc_srgb.jpg"):
    put(name, {"to_srgb": True}, to_srgb(Image.open(media / name), "RGB"), False)
rgba = Image.open(media / "rgba.png")
rgba.save(media / "icc_swapped_alpha.png", icc_profile=swapped)
opaque = rgba.convert("RGB")
opaque.info["icc_profile"] = swapped
converted = to_srgb(opaque, "RGB")
converted.putalpha(rgba.getchannel("A"))
put("icc_swapped_alpha.png", {"to_srgb": True}, converted, False)
Image.open(media / "gray.png").save(media / "icc_gray.png", icc_profile=gray_profile())
gray = to_srgb(Image.open(media / "icc_gray.png"), "RGB").getchannel("R")
put("icc_gray.png", {"to_srgb": True}, gray, False)
cmyk = ImageCms.profileToProfile(picture, ImageCms.createProfile("sRGB"), ImageCms.ImageCmsProfile(io.BytesIO(cmyk_icc)), outputMode="CMYK")
with_profile = io.BytesIO()
cmyk.save(with_profile, "JPEG", icc_profile=cmyk_icc, quality=92)
put("cmyk_stripped.jpg", {"to_srgb": True}, to_srgb(Image.open(with_profile), "RGB"), False)
cmyk.save(media / "cmyk_stripped.jpg", icc_profile=None, quality=92)
for name in ("rgba.png", "palette_trns.png", "rgb_trns.png", "lossless_alpha.webp", "gray_alpha.png"):
    image = Image.open(media / name)
    image = image.convert("RGBA")
    for background in ([255, 255, 255], [10, 200, 90]):
        under = Image.new("RGB", image.size, tuple(background))
        under.paste(image.convert("RGB"), mask=image.getchannel("A"))
        put(name, {"channels": "rgb", "background": background}, under)
    put(name, {"channels": "rgba"}, image)
for name in ("gray.png", "rgb.png", "jpg_gray.jpg"):
    put(name, {"channels": "rgb"}, Image.open(media / name).convert("RGB"))
    put(name, {"channels": "rgba"}, Image.open(media / name).convert("RGBA"))
Path("transforms.json").write_text(json.dumps(vectors, separators=(",", ":")).replace('"}],', '"}],\n') + "\n")
