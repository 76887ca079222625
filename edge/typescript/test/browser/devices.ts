/**
 * Many devices in one page of Chromium: `node devices.mjs GATEWAY ROOT DEVICES PORT`.
 *
 * The page comes from 127.0.0.1:PORT, another origin than the gateway's. Each device has its own store.
 * Prints one JSON object: how many reports were taken, refused, and lost or left over.
 */

import { gatewayWithPage, Profile, type Edge } from "./page.js";

const [gateway, root, devices, port] = process.argv.slice(2) as [string, string, string, string];

interface Found {
  taken: number;
  refused: string[];
  left: number;
}

async function inPage([url, gateway, root, devices]: string[]): Promise<Found> {
  const edge = (await import(url!)) as Edge;
  const server = new edge.Gateway(gateway!);
  const envelopes = await Promise.all((await server.plans()).map(({ digest }) => server.plan(digest)));
  const found: Found = { taken: 0, refused: [], left: 0 };
  const one = async (number: number) => {
    const store = new edge.IndexedDbStore(`device ${number}`);
    const region = number % 10 < 6 ? "EU" : number % 10 < 9 ? "US" : "elsewhere";
    for (const envelope of envelopes) {
      const reporter = await edge.Reporter.open(envelope, store, { policy: { roots: [root!] } });
      const record = { region, theme: number % 4 ? "dark" : "light" };
      const { delivery } = await new edge.Sender(server, store).send(reporter, record);
      found.taken += delivery.taken;
      found.refused.push(...delivery.refused);
      found.left += delivery.lost + delivery.waiting;
    }
  };
  let next = 0;
  const worker = async () => {
    while (next < Number(devices)) await one(next++);
  };
  await Promise.all(Array.from({ length: 8 }, worker));
  return found;
}

const server = await gatewayWithPage(Number(port), gateway);
const profile = new Profile();
try {
  const page = await profile.tab(server.base);
  console.log(JSON.stringify(await page.evaluate(inPage, ["/edge.js", gateway, root, devices])));
} finally {
  await profile.close();
  await server.close();
}
