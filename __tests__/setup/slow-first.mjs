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

  /**
   * `--shard=1/2`: the slow suites are dealt out in their order, so that both halves take about as long.
   *
   * @param {import("@jest/test-result").Test[]} all
   * @param {{ shardIndex: number, shardCount: number }} shard the first one is number 1
   * @returns {import("@jest/test-result").Test[]}
   */
  shard(all, { shardIndex, shardCount }) {
    const inOrder = [...all].sort((a, b) => rank(a.path) - rank(b.path) || (a.path < b.path ? -1 : 1));
    return inOrder.filter((_, index) => index % shardCount === shardIndex - 1);
  }
}
