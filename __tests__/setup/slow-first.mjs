import path from "node:path";
import { fileURLToPath } from "node:url";
import Sequencer from "@jest/test-sequencer";
import { SLOW } from "../../jest.lanes.mjs";

const tests = fileURLToPath(new URL("..", import.meta.url));
const rank = (file) => {
  const found = SLOW.indexOf(
    path
      .relative(tests, file)
      .replaceAll("\\", "/")
      .replace(/\.test\.ts$/, ""),
  );
  return found === -1 ? SLOW.length : found;
};

/** Starts the slow suites first, so that at the end no worker waits minutes for the last one. A new checkout has no times to go by. */
export default class SlowFirst extends Sequencer {
  /** @param {import("@jest/test-result").Test[]} all @returns {import("@jest/test-result").Test[]} */
  sort(all) {
    return super.sort(all).sort((a, b) => rank(a.path) - rank(b.path));
  }
}
