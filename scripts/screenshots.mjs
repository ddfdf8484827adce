/**
 * Makes the pictures in docs/images/ of the page of `turns web`, from a real run of examples/lighthouse: light and dark.
 *
 *   npm run screenshots      needs Chromium: CHROMIUM, or /usr/bin/chromium
 */
import { Buffer } from "node:buffer";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { crc32, deflateSync, inflateSync } from "node:zlib";
import { chromium } from "playwright-core";

const root = fileURLToPath(new URL("..", import.meta.url));
const images = path.join(root, "docs", "images");
const MOST_BYTES = 150 * 1_024;
const TSX = ["--import", import.meta.resolve("tsx")];

/** What is shown: the name of the picture, and the address. */
const SHOTS = [
  ["viewer", "/?thread=lighthouse"],
  ["viewer-rewind", "/?thread=lighthouse&view=rewind&tab=messages"],
  ["viewer-graph", "/?thread=lighthouse&view=graph&tab=diff"],
];

const work = mkdtempSync(path.join(tmpdir(), "turns-screenshots-"));
const file = path.join(work, "agent.db");
const env = { ...process.env, NODE_OPTIONS: "", LETTERS: path.join(work, "letters.txt") };
const node = (...args) => execFileSync(process.execPath, args, { cwd: root, env, stdio: ["ignore", 2, 2] });

let server;
let browser;
try {
  node(path.join(root, "scripts", "viewer.mjs"));
  node(...TSX, path.join(root, "examples", "lighthouse", "run.ts"), file);
  server = spawn(process.execPath, [...TSX, path.join(root, "src", "cli", "index.ts"), "agent.db", "web"], { cwd: work, env });
  const link = await new Promise((resolve, reject) => {
    server.stdout.once("data", (text) => resolve(String(text).trim()));
    server.once("exit", (code) => reject(new Error(`turns web ended with ${code}`)));
  });
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--disable-gpu", "--disable-lcd-text", ...(process.getuid?.() === 0 ? ["--no-sandbox"] : [])],
  });
  const context = await browser.newContext({ viewport: { width: 1_440, height: 900 }, reducedMotion: "reduce" });
  const page = await context.newPage();
  await page.goto(link);
  mkdirSync(images, { recursive: true });
  for (const [name, address] of SHOTS) {
    await page.goto(new URL(address, link).href);
    await page.locator("header .live.live").waitFor();
    await page.locator("aside .panel > :not(.loading)").first().waitFor();
    await page.waitForLoadState("load");
    await page.locator(".loading").first().waitFor({ state: "detached" });
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      const picture = path.join(images, `${name}-${colorScheme}.png`);
      const small = withPalette(await page.screenshot());
      if (small.length > MOST_BYTES) throw new Error(`${picture} has ${small.length} bytes: more than ${MOST_BYTES}.`);
      writeFileSync(picture, small);
      console.log(`${path.relative(root, picture)}: ${Math.round(small.length / 1_024)} KB`);
    }
  }
} finally {
  await browser?.close();
  server?.kill("SIGTERM");
  rmSync(work, { recursive: true, force: true });
}

/** A PNG with a palette of its 256 most frequent colours: a third of the size, and for a page hardly a difference. */
function withPalette(png) {
  const { width, height, channels, pixels } = decoded(png);
  const counts = new Map();
  const colourAt = (at) => (pixels[at] << 16) | (pixels[at + 1] << 8) | pixels[at + 2];
  for (let at = 0; at < pixels.length; at += channels) counts.set(colourAt(at), (counts.get(colourAt(at)) ?? 0) + 1);
  const palette = [...counts]
    .sort(([, one], [, other]) => other - one)
    .slice(0, 256)
    .map(([colour]) => colour);
  const indexes = new Map(palette.map((colour, index) => [colour, index]));
  const rows = Buffer.alloc(height * (width + 1));
  for (let y = 0; y < height; y += 1)
    for (let x = 0; x < width; x += 1) {
      const colour = colourAt((y * width + x) * channels);
      if (!indexes.has(colour)) indexes.set(colour, nearest(palette, colour));
      rows[y * (width + 1) + 1 + x] = indexes.get(colour);
    }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  const colours = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]));
  const parts = [
    chunk("IHDR", head),
    chunk("PLTE", colours),
    chunk("IDAT", deflateSync(rows, { level: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ];
  return Buffer.concat([png.subarray(0, 8), ...parts]);
}

function nearest(palette, colour) {
  const distance = (other) =>
    [16, 8, 0].reduce((sum, shift) => sum + (((colour >> shift) & 255) - ((other >> shift) & 255)) ** 2, 0);
  return palette.reduce((best, other, index) => (distance(other) < distance(palette[best]) ? index : best), 0);
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(body) >>> 0);
  return Buffer.concat([length, body, sum]);
}

/** The pixels of a PNG as Chromium writes it: 8 bits a channel, not interlaced. */
function decoded(png) {
  const data = [];
  for (let at = 8; at < png.length; at += png.readUInt32BE(at) + 12)
    if (png.toString("latin1", at + 4, at + 8) === "IDAT") data.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  const [width, height, channels] = [png.readUInt32BE(16), png.readUInt32BE(20), png[25] === 6 ? 4 : 3];
  const raw = inflateSync(Buffer.concat(data));
  const stride = width * channels;
  const pixels = Buffer.alloc(stride * height);
  for (let y = 0; y < height; y += 1)
    for (let x = 0; x < stride; x += 1) {
      const at = y * stride + x;
      const left = x < channels ? 0 : pixels[at - channels];
      const up = y === 0 ? 0 : pixels[at - stride];
      const corner = x < channels || y === 0 ? 0 : pixels[at - stride - channels];
      pixels[at] = raw[y * (stride + 1) + 1 + x] + predicted(raw[y * (stride + 1)], left, up, corner);
    }
  return { width, height, channels, pixels };
}

/** PNG's five filters. */
function predicted(filter, left, up, corner) {
  if (filter < 3) return [0, left, up][filter];
  if (filter === 3) return (left + up) >> 1;
  const guess = left + up - corner;
  const [a, b, c] = [left, up, corner].map((value) => Math.abs(guess - value));
  return a <= b && a <= c ? left : b <= c ? up : corner;
}
