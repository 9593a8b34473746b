"""What the plots are drawn with, without any library: text, lines, a document."""
from xml.sax.saxutils import escape

INK, FAINT, GRID = "#1f2933", "#7b8794", "#e4e7eb"
MUSTER, PEER, LIMIT = "#d9480f", "#52606d", "#0b7285"
WIDTH = 1080


def text(x, y, words, size=12, color=INK, anchor="start", weight="normal"):
    return ('<text x="%.1f" y="%.1f" font-size="%d" fill="%s" text-anchor="%s" font-weight="%s">%s</text>'
            % (x, y, size, color, anchor, weight, escape(words)))


def line(points, color, width, dashes=""):
    return ('<polyline points="%s" fill="none" stroke="%s" stroke-width="%.1f"%s/>'
            % (" ".join("%.1f,%.1f" % point for point in points), color, width,
               ' stroke-dasharray="%s"' % dashes if dashes else ""))


def dot(x, y, color):
    return '<circle cx="%.1f" cy="%.1f" r="3.2" fill="%s"/>' % (x, y, color)


def write(path, height, parts):
    with open(path, "w") as f:
        f.write('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
                'font-family="DejaVu Sans, Helvetica, Arial, sans-serif">\n<rect width="100%%" height="100%%" '
                'fill="#ffffff"/>\n%s\n</svg>\n' % (WIDTH, height, WIDTH, height, "\n".join(parts)))


def machine_words(configuration):
    return "%s · %s · commit %s" % (configuration["processor"], configuration["kernel"], configuration["commit"])
