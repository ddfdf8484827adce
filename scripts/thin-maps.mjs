/**
 * Thins the source maps in `dist/`, which aren't published, and takes their names out of the files: of all places in a source line only the first keeps its mapping. A stack trace still leads to file and
 * line, and the maps take a quarter of the room.
 */
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const DIST = fileURLToPath(new URL("../dist/", import.meta.url));
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** The numbers of a segment, in base 64 of five bits a digit, the lowest bit being the sign. */
function decoded(segment) {
  const numbers = [];
  let [value, shift] = [0, 0];
  for (const character of segment) {
    const digit = DIGITS.indexOf(character);
    value |= (digit & 31) << shift;
    shift += 5;
    if (digit & 32) continue;
    numbers.push(value & 1 ? -(value >> 1) : value >> 1);
    [value, shift] = [0, 0];
  }
  return numbers;
}

function encoded(numbers) {
  let text = "";
  for (const number of numbers) {
    let rest = number < 0 ? (-number << 1) | 1 : number << 1;
    do {
      const digit = rest & 31;
      rest >>>= 5;
      text += DIGITS[rest > 0 ? digit | 32 : digit];
    } while (rest > 0);
  }
  return text;
}

/** Each number of a segment is the difference to the one before; that of the column starts again with each line of the output. */
export function thinned(mappings) {
  let [source, line, column] = [0, 0, 0];
  let [keptSource, keptLine, keptColumn] = [0, 0, 0];
  let isFirst = true;
  return mappings
    .split(";")
    .map((text) => {
      let [at, keptAt] = [0, 0];
      const kept = [];
      for (const segment of text === "" ? [] : text.split(",")) {
        const [by, bySource, byLine, byColumn] = decoded(segment);
        at += by;
        if (bySource === undefined) continue;
        [source, line, column] = [source + bySource, line + byLine, column + byColumn];
        if (!isFirst && kept.length > 0 && source === keptSource && line === keptLine) continue;
        kept.push(encoded([at - keptAt, source - keptSource, line - keptLine, column - keptColumn]));
        [keptAt, keptSource, keptLine, keptColumn, isFirst] = [at, source, line, column, false];
      }
      return kept.join(",");
    })
    .join(";");
}

for (const file of await readdir(DIST)) {
  if (!file.endsWith(".js.map")) continue;
  const map = JSON.parse(await readFile(join(DIST, file), "utf8"));
  await writeFile(join(DIST, file), JSON.stringify({ ...map, names: [], mappings: thinned(map.mappings) }));
  const mapped = join(DIST, file.replace(/\.map$/, ""));
  await writeFile(mapped, (await readFile(mapped, "utf8")).replace(/\/\/# sourceMappingURL=.*\n?$/, ""));
}
