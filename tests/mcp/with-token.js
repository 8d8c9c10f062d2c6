// Passes requests on to a server with its token, which the conformance suite cannot send.
//
//   node with-token.js SERVER_URL TOKEN_FILE
//
// Prints its own URL once it listens.
const http = require("node:http");
const fs = require("node:fs");

const server = new URL(process.argv[2]);
const token = fs.readFileSync(process.argv[3], "utf8").trim();

const proxy = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  const options = { host: server.hostname, port: server.port, method: request.method, path: request.url, headers };
  const passed = http.request(options, (reply) => {
    response.writeHead(reply.statusCode, reply.headers);
    reply.pipe(response);
  });
  passed.on("error", () => response.destroy());
  response.on("close", () => passed.destroy());
  request.pipe(passed);
});
proxy.listen(0, "127.0.0.1", () => console.log(`http://localhost:${proxy.address().port}`));
