import { existsSync, mkdirSync } from "node:fs";
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
    waitFor(done);
    return folder;
  }
  build(folder);
  mkdirSync(done);
  return folder;
}

function waitFor(place: string): void {
  const sleep = new Int32Array(new SharedArrayBuffer(4));
  for (let waited = 0; !existsSync(place); waited += 100) {
    if (waited > LIMIT_MS) throw new Error(`${place} isn't there. The suite that builds it says why.`);
    Atomics.wait(sleep, 0, 0, 100);
  }
}
