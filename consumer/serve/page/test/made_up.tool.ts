/** The made-up server by itself, until standard input ends: prints its address. With `--token T` it asks for a token. */

import { PageServer } from "./server";

const server = await PageServer.start();
if (process.argv[2] === "--token") server.token = process.argv[3]!;
console.log(server.address);
process.stdin.resume();
process.stdin.on("end", () => void server.close());
