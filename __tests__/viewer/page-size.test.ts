import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { gunzipSync } from "node:zlib";
import { tempFile } from "../support/temp";

/* What the page of `turns web` weighs, and what may be in it. */

const ROOT = path.join(__dirname, "..", "..");
const KB = 1_000;
const folder = path.dirname(tempFile("page"));
const bytesOf = (name: string): Buffer => readFileSync(path.join(folder, "viewer", name));
/** The text of a file, decompressed. */
const read = (name: string): string => (name.endsWith(".gz") ? gunzipSync(bytesOf(name)) : bytesOf(name)).toString("utf8");

beforeAll(() => {
  const build = path.join(ROOT, "scripts", "viewer.mjs");
  execFileSync(process.execPath, [build, path.join(folder, "viewer")], {
    cwd: ROOT,
    stdio: "pipe",
    env: { ...process.env, NODE_OPTIONS: "" },
  });
});

describe("S10.2 the page as it is shipped", () => {
  it("S10.2 is five files of at most 150 KB when decompressed, with scripts of at most 60 KB gzipped; the graph's layout is a file of its own", () => {
    const names = readdirSync(path.join(folder, "viewer")).sort();
    expect(names).toEqual(["icon.svg", "index.html", "layout.js.gz", "page.css.gz", "page.js.gz"]);
    const bytes = names.map((name) => Buffer.byteLength(read(name))).reduce((sum, size) => sum + size, 0);
    expect(bytes).toBeLessThanOrEqual(150 * KB);
    expect(bytesOf("page.js.gz").byteLength + bytesOf("layout.js.gz").byteLength).toBeLessThanOrEqual(60 * KB);
    expect(bytesOf("page.js.gz").byteLength).toBeLessThanOrEqual(35 * KB);
  });

  it("S10.2 loads nothing from elsewhere, has no inline style or script, and makes HTML of nothing", () => {
    const html = read("index.html");
    expect(html).not.toMatch(/style=|<style|<script(?![^>]*src=)|https?:/);
    expect(read("page.css.gz")).not.toMatch(/https?:|@import|url\(/);
    const sources = readdirSync(path.join(ROOT, "src", "viewer", "page")).filter((name) => /\.tsx?$/.test(name));
    expect(sources.length).toBeGreaterThan(20);
    for (const name of sources) {
      const source = readFileSync(path.join(ROOT, "src", "viewer", "page", name), "utf8");
      expect(source).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function/i);
    }
    for (const name of ["page.js.gz", "layout.js.gz"]) expect(read(name)).not.toMatch(/sourceMappingURL/);
  });
});
