// Opens each page of a folder in a browser, in light and dark and for print, and
// reports what axe finds, scripts and requests that a page must not have, and
// what sticks out of the window. Usage: node pages.mjs FOLDER [SCREENSHOTS]
// Exit code 1 and one line a finding if there is any.

import { createRequire } from "node:module";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const [folder, screenshots] = process.argv.slice(2);
const findings = [];

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});
const looks = [
  { name: "light", colorScheme: "light", viewport: { width: 1100, height: 900 } },
  { name: "dark", colorScheme: "dark", viewport: { width: 1100, height: 900 } },
  { name: "phone", colorScheme: "light", viewport: { width: 390, height: 800 } },
];
try {
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".html"))) {
    for (const { name, ...options } of looks) {
      const context = await browser.newContext(options);
      const page = await context.newPage();
      const report = (text) => findings.push(`${file} (${name}): ${text}`);
      page.on("request", (request) => {
        if (!request.url().startsWith("file:")) report(`asks for ${request.url()}`);
      });
      page.on("console", (message) => {
        if (message.type() === "error") report(message.text());
      });
      await page.goto(pathToFileURL(path.join(folder, file)).href);
      if ((await page.locator("script").count()) > 0) report("has a script");
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) report(`is ${wide} pixels wider than the window`);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run());
      for (const v of violations) {
        for (const node of v.nodes) report(`${v.id}: ${v.help}: ${node.html.slice(0, 120)}`);
      }
      if (screenshots) await page.screenshot({ path: path.join(screenshots, `${file}.${name}.png`), fullPage: true });
      if (name === "light") {
        await page.emulateMedia({ media: "print" });
        const pdf = await page.pdf({ format: "A4" });
        if (pdf.length < 1000) report("prints nothing");
      }
      await context.close();
    }
  }
} finally {
  await browser.close();
}
for (const f of findings) console.log(f);
process.exitCode = findings.length > 0 ? 1 : 0;
