// Lives a user's life on a server, with the keyboard where a person would use it:
// becomes the admin, submits a program, reads its verdict, makes a token, tries a
// call on the page of the API, signs out and in. Looks at each page with axe, in
// light and dark and on a phone, and reports what sticks out of the window, what
// the pages' policy refuses and what they ask of other hosts.
// Usage: node site.mjs URL SETUP_PATH [SCREENSHOTS]
// Exit code 1 and one line a finding if there is any.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import path from "node:path";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const [server, setup, screenshots] = process.argv.slice(2);
const password = "a long password of a test";
const findings = [];
const looks = [
  { name: "light", colorScheme: "light", viewport: { width: 1200, height: 900 } },
  { name: "dark", colorScheme: "dark", viewport: { width: 1200, height: 900 } },
  { name: "phone", colorScheme: "light", viewport: { width: 390, height: 800 } },
];

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const context = await browser.newContext();
const page = await context.newPage();
page.setDefaultTimeout(120_000); // on a busy machine, too
page.on("request", (request) => {
  if (!request.url().startsWith(server)) findings.push(`${page.url()} asks for ${request.url()}`);
});
page.on("console", (message) => {
  if (message.type() === "error") findings.push(`${page.url()}: ${message.text()}`);
});
page.on("pageerror", (error) => findings.push(`${page.url()}: ${error}`));

// look has axe read the page as it is now, in every look.
async function look(name) {
  for (const { name: how, colorScheme, viewport } of looks) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize(viewport);
    const report = (text) => findings.push(`${name} (${how}): ${text}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wide > 0) report(`is ${wide} pixels wider than the window`);
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    for (const v of violations) {
      for (const node of v.nodes) report(`${v.id}: ${v.help}: ${node.html.slice(0, 120)}`);
    }
    if (screenshots) await page.screenshot({ path: path.join(screenshots, `${name}.${how}.png`), fullPage: true });
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(looks[0].viewport);
}

const expect = (ok, text) => ok || findings.push(`${page.url()}: ${text}`);
// send has the keyboard send the form in which the focus is.
const send = () => Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);

try {
  await page.goto(server + "/");
  await look("start for everybody");
  await page.goto(server + setup);
  await look("setup");
  await page.fill("[name=login]", "ada");
  await page.fill("[name=password]", password);
  if (await page.locator("[name=again]").count()) await page.fill("[name=again]", password);
  await page.focus("[name=login]");
  await send();
  await page.goto(server + "/");
  await look("start");

  await page.click("a:text-is('sum')");
  await look("problem");
  await page.fill("[name=file]", "main.py");
  await page.fill("[name=text]", "print(1)\n");
  await page.focus("[name=file]");
  await send();
  await page.waitForSelector(".verdict:text-is('WA')");
  await look("submission");
  expect((await page.textContent("pre")).includes("print(1)"), "the source is not shown");

  await page.goto(server + "/account");
  await look("account");

  await page.goto(server + "/api/docs");
  await look("API");
  await page.fill("#find", "languages");
  await page.click("#ListLanguages summary");
  await page.focus("#ListLanguages button");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("#ListLanguages .status").textContent.startsWith("200"));
  expect((await page.textContent("#ListLanguages .answer")).includes("python3"), "the call's answer is not shown");
  await look("API with an answer");

  await page.goto(server + "/");
  await Promise.all([page.waitForNavigation(), page.click("text=Sign out")]);
  await page.goto(server + "/sign-in");
  await look("sign in");
  await page.fill("[name=login]", "ada");
  await page.fill("[name=password]", "not the password");
  await send();
  expect((await page.locator("[role=alert]").count()) === 1, "a wrong password is not told");
  await look("sign in that failed");
} catch (error) {
  findings.push(`${page.url()}: ${error.message}`);
} finally {
  await browser.close();
}
// A wrong password is answered with 401, which browsers log.
const left = findings.filter((f) => !f.includes("status of 401"));
for (const f of left) console.log(f);
process.exitCode = left.length > 0 ? 1 : 0;
