"""The site that tests/replays crawls: a folder of documentation, and below /extras/ a page that loads in every way.

Argument: the folder. Prints where the site is, and serves it on loopback until it is ended.
"""

import functools
import http.server
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".vtt": "text/vtt",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
    ".xml": "application/xml",
}

PAGE = """<!doctype html>
<html lang="en"><head><title>Everything that loads</title><base href="/extras/base/">
<link rel="stylesheet" href="../css/main.css"><link rel="icon" href="../image/icon.png">
<link rel="manifest" href="../app.webmanifest"><link rel="modulepreload" href="../module.js">
<link rel="preload" as="image" imagesrcset="../image/preloaded.png 1x" href="../image/preloaded.png">
<style>@import "inline.css"; .style { background: url(style.png) }</style></head>
<body background="body.png">
<p class="style">style</p><p style="background: url(&quot;attribute.png&quot;)">attribute</p>
<p class="a">a</p><p class="b">b</p><p class="c">c</p><p class="d">d</p><p class="e">e</p>
<img src="img.png" alt=""><img src="img.png" srcset="wide.png 1x" alt="">
<picture><source srcset="picture.png"><img src="img.png" alt=""></picture>
<input type="image" src="input.png" alt="">
<svg width="9" height="9"><image href="drawn.png" width="9" height="9"/><use href="used.svg#part"/></svg>
<svg width="9" height="9"><image xlink:href="linked.png" width="9" height="9"/></svg>
<object data="object.png" type="image/png"></object><embed src="embed.png" type="image/png">
<video src="video.png" poster="poster.png"><track default src="track.vtt"></video>
<iframe src="../frame.html"></iframe>
<iframe srcdoc="<img src=written.png><p style='background: url(deep.png)'>written</p>"></iframe>
<script src="../script.js"></script><script type="module" src="../module.js"></script>
</body></html>
"""

TEXTS = {
    "/extras/index.html": PAGE,
    "/extras/frame.html": "<!doctype html><title>x</title><p style='background: url(image/frame.png)'>frame</p>",
    "/extras/base/inline.css": ".a { background: url(inline.png) }",
    "/extras/css/main.css": "@charset \"utf-8\"; @import 'import.css' layer(x) supports(display: grid) screen;"
    "@font-face { font-family: x; src: url(../font/x.woff2) format('woff2') } body { font-family: x }"
    ".b { background: image-set('../image/set.png' 1x, url(../image/double.png) 2x) }"
    ".c { --image: url(/extras/image/custom.png); background: var(--image) }",
    "/extras/css/import.css": "@import url(nested/last.css); .d { background: url(\"../image/\\69mport.png\") }",
    "/extras/css/nested/last.css": ".e { background: url(last.png) }",
    "/extras/base/used.svg": "<svg xmlns='http://www.w3.org/2000/svg'><rect id='part' width='9' height='9'/></svg>",
    "/extras/base/track.vtt": "WEBVTT\n",
    "/extras/script.js": "document.body.dataset.script = 'ran';",
    "/extras/module.js": "document.body.dataset.module = 'ran';",
    "/extras/app.webmanifest": '{"name": "x", "start_url": "./", "icons": [{"src": "image/app.png", "sizes": "16x16"}]}',
}


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, **TYPES}

    def do_GET(self):
        if not self.path.startswith("/extras/"):
            return super().do_GET()
        body = TEXTS.get(self.path, "").encode()
        if self.path.endswith((".png", ".woff2")):
            # Any image will do, but each its own.
            body = open(f"{self.directory}/_static/py.png", "rb").read() + self.path.encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", self.guess_type(self.path))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=sys.argv[1]))
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
