import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

const LIMIT_MS = 300_000;

/**
 * Builds something once in a run of jest, in the first suite that needs it; the others wait. A suite that builds it again would remove
 * what another one is using.
 *
 * @param build is given a folder that is there until the run has ended, and is its own
 * @returns that folder; undefined outside jest, where nothing was built
 */
export function builtOnce(name: string, build: (folder: string) => void): string | undefined {
  const { TURNS_BUILDS: builds } = process.env;
  if (builds === undefined) return undefined;
  const [folder, done] = [path.join(builds, name), path.join(builds, `${name}-done`)];
  try {
    mkdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    waitFor(done, `${folder}-failed`);
    return folder;
  }
  try {
    build(folder);
  } catch (error) {
    writeFileSync(`${folder}-failed`, String(error));
    throw error;
  }
  mkdirSync(done);
  return folder;
}

function waitFor(done: string, failed: string): void {
  const sleep = new Int32Array(new SharedArrayBuffer(4));
  for (let waited = 0; !existsSync(done); waited += 100) {
    if (existsSync(failed)) throw new Error(readFileSync(failed, "utf8"));
    if (waited > LIMIT_MS) throw new Error(`${done} isn't there after ${LIMIT_MS} ms.`);
    Atomics.wait(sleep, 0, 0, 100);
  }
}
