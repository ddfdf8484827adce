import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";

/** Every link in README and docs leads to a file that is in the package, or to an absolute URL: on the npm page nothing else is there. */
const ROOT = join(__dirname, "..", "..");
const { files: shipped } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { files: string[] };

const isUnder = (path: string, entries: readonly string[]): boolean =>
  entries.some((entry) => path === entry || path.startsWith(`${entry}/`));

const isShipped = (path: string): boolean =>
  ["README.md", "LICENSE", "package.json"].includes(path) ||
  (isUnder(path, shipped) &&
    !isUnder(
      path,
      shipped.filter((entry) => entry.startsWith("!")).map((entry) => entry.slice(1)),
    ));

const pages = [
  "README.md",
  "CHANGELOG.md",
  "SECURITY.md",
  ...readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" }).map((name) => join("docs", name)),
].filter((name) => name.endsWith(".md") && isShipped(name));

/** Without code, in which brackets mean something else. */
const textOf = (page: string): string =>
  readFileSync(join(ROOT, page), "utf8")
    .replace(/^(`{3,}|~{3,})[^]*?^\1/gm, "")
    .replace(/(`+)[^`]+\1/g, "code");

/** As GitHub and npm make them: lower case, without punctuation, spaces as hyphens. */
function anchorsOf(page: string): Set<string> {
  const text = readFileSync(join(ROOT, page), "utf8").replace(/^(`{3,}|~{3,})[^]*?^\1/gm, "");
  const seen = new Map<string, number>();
  const anchors = new Set<string>();
  for (const [, heading = ""] of text.matchAll(/^#{1,6} +(.+)$/gm)) {
    const plain = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[`*]/g, "");
    const slug = plain
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\p{M}_ -]/gu, "")
      .replace(/ /g, "-");
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    anchors.add(count === 0 ? slug : `${slug}-${count}`);
  }
  for (const [, id = ""] of text.matchAll(/<a (?:id|name)="([^"]+)"/g)) anchors.add(id);
  return anchors;
}

function problemsOf(page: string): string[] {
  const links = [...textOf(page).matchAll(/\]\(\s*<?([^)\s>]+)>?[^)]*\)|(?:href|src)="([^"]+)"/g)].map(
    ([, one, two]) => one ?? two ?? "",
  );
  return links.flatMap((link) => {
    if (/^(https?:|mailto:)/.test(link)) return URL.canParse(link) ? [] : [`${link}: no URL`];
    const [path = "", anchor] = decodeURI(link).split("#", 2);
    const target = path === "" ? page : relative(ROOT, join(ROOT, dirname(page), path));
    if (!existsSync(join(ROOT, target))) return [`${link}: there is no such file`];
    if (!isShipped(target)) return [`${link}: not in the package`];
    if (statSync(join(ROOT, target)).isDirectory()) return [`${link}: a folder, which npm doesn't show`];
    return anchor === undefined || anchorsOf(target).has(anchor) ? [] : [`${link}: no such heading`];
  });
}

test.each(pages)("S8.8 every link in %s works on the npm page", (page) => {
  expect(problemsOf(page)).toEqual([]);
});

test("README: it has at most 180 lines", () => {
  expect(readFileSync(join(ROOT, "README.md"), "utf8").split("\n").length).toBeLessThanOrEqual(181);
});
