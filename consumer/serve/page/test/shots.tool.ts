/**
 * Screenshots: `node shots.tool.mjs FOLDER NAME[@LOOK]=ADDRESS...`. LOOK is a width and a colour scheme, such as
 * `390-dark`; without it all four are taken. ADDRESS is that of a page, or `#/..` of the made-up plans.
 */

import { launch, settled, tab } from "./browser";
import { PageServer } from "./server";

const LOOKS = ["1440-light", "1440-dark", "390-light", "390-dark"];
const HEIGHTS: Readonly<Record<string, number>> = { 1440: 900, 390: 844 };

const [folder, ...shots] = process.argv.slice(2);
const server = await PageServer.start();
const browser = await launch();
for (const shot of shots) {
  const [, name, look, address] = /^([^=@]+)(?:@([^=]+))?=(.*)$/s.exec(shot)!;
  const url = address!.startsWith("#") ? `${server.address}/${address}` : address!;
  for (const one of look ? [look] : LOOKS) {
    const [width, scheme] = one.split("-") as [string, string];
    const { page, wrongs, context } = await tab(browser, new URL(url).origin, {
      width: Number(width),
      height: HEIGHTS[width]!,
      dark: scheme === "dark",
    });
    await page.goto(url);
    await settled(page);
    await page.screenshot({ path: `${folder}/${name}-${one}.png`, fullPage: process.env["FULL"] === "1" });
    if (wrongs.length) throw new Error(wrongs.join("\n"));
    await context.close();
  }
}
await browser.close();
await server.close();
