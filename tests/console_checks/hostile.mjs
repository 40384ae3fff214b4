// A server that writes markup and scripts into everything that a crawler passes on: URLs, titles, headers, robots.txt.

import http from "node:http";

export const MARKUP = `<script>window.pwned=1</script><img src=x onerror=window.pwned=2>"'><svg onload=window.pwned=3>`;
const PAGES = 3000;

function answer(request, response) {
  const markup = { "x-markup": MARKUP, "set-cookie": `a=${MARKUP.replaceAll(";", "")}` };
  if (request.url === "/robots.txt") {
    response.writeHead(200, { "content-type": "text/plain", ...markup });
    return response.end(`User-agent: *\nDisallow: /private/${MARKUP}\nDisallow: /<b>no</b>\nAllow: /\n`);
  }
  const number = Number(request.url.match(/\d+/)?.[0] ?? 0);
  const links = [1, 2, 3].map((step) => (3 * number + step) % PAGES);
  const list = links.map((link) => `<a href='/${link}?q=${encodeURIComponent(MARKUP)}&lt;b&gt;'>${MARKUP}</a>`);
  response.writeHead(200, { "content-type": "text/html", ...markup });
  response.end(`<!doctype html><html lang="<b>x"><title>${MARKUP}</title>${list.join("\n")}`);
}

/** Begins to serve. Gives the URL to begin with. */
export async function beginHostileServer() {
  const server = http.createServer(answer);
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  server.unref();
  return `http://127.0.0.1:${server.address().port}/`;
}
