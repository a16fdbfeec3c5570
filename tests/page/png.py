"""png.py: reads the pixels of a PNG as browsers write it: 8 bits, RGB or RGBA, not interlaced."""

import struct
import zlib


class Picture:
    def __init__(self, data):
        if data[:8] != b"\x89PNG\r\n\x1a\n":
            raise ValueError("not a PNG")
        at, body = 8, b""
        while at < len(data):
            length, kind = struct.unpack(">I4s", data[at:at + 8])
            chunk = data[at + 8:at + 8 + length]
            if kind == b"IHDR":
                self.width, self.height, depth, colours, _, _, laced = struct.unpack(">IIBBBBB", chunk)
                self.samples = {2: 3, 6: 4}[colours]
                if depth != 8 or laced:
                    raise ValueError("not a form that this reads")
            elif kind == b"IDAT":
                body += chunk
            at += length + 12
        self.rows = self.unfilter(zlib.decompress(body))

    def unfilter(self, raw):
        size, before, rows = self.width * self.samples, self.samples, []
        above = bytearray(size)
        for y in range(self.height):
            start = y * (size + 1)
            kind, row = raw[start], bytearray(raw[start + 1:start + 1 + size])
            for i in range(size) if kind else ():
                left = row[i - before] if i >= before else 0
                up, corner = above[i], above[i - before] if i >= before else 0
                if kind == 1:
                    guess = left
                elif kind == 2:
                    guess = up
                elif kind == 3:
                    guess = (left + up) // 2
                else:
                    away = [abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)]
                    guess = (left, up, corner)[away.index(min(away))]
                row[i] = (row[i] + guess) & 255
            rows.append(row)
            above = row
        return rows

    def pixel(self, x, y):
        at = int(x) * self.samples
        return tuple(self.rows[int(y)][at:at + 3])

    def counts(self, left, top, right, bottom):
        """How often each colour occurs in a rectangle."""
        found = {}
        for y in range(int(top), int(bottom)):
            for x in range(int(left), int(right)):
                colour = self.pixel(x, y)
                found[colour] = found.get(colour, 0) + 1
        return found


def near(colour, wanted, most=24):
    return all(abs(a - b) <= most for a, b in zip(colour, wanted))
