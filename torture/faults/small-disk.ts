import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Set it where mounting is impossible, to leave out the tests that need it. */
export const WITHOUT_MOUNT = process.env["TURNS_WITHOUT_MOUNT"] === "1";

/** A file system of its own, with the given size. */
export class SmallDisk {
  readonly folder: string;

  /** @throws if mounting is refused: a test of a full disk must not pass without one */
  constructor(folder: string, kilobytes: number) {
    mkdirSync(folder, { recursive: true });
    this.folder = folder;
    const refusal = mount("-t", "tmpfs", "-o", `size=${kilobytes}k`, "tmpfs", folder);
    if (refusal === undefined) return;
    throw new Error(
      `a disk that is really full needs the right to mount a tmpfs (root): ${refusal}. TURNS_WITHOUT_MOUNT=1 leaves these tests out.`,
    );
  }

  /** Leaves this much room, by a file that fills the rest. @returns that file */
  leave(kilobytes: number): string {
    const filler = join(this.folder, "filler");
    rmSync(filler, { force: true });
    const { bavail, bsize } = statfsSync(this.folder);
    writeFileSync(filler, Buffer.alloc(Math.max(0, bavail * bsize - kilobytes * 1024)));
    return filler;
  }

  grow(kilobytes: number): void {
    const refusal = mount("-o", `remount,size=${kilobytes}k`, this.folder);
    if (refusal !== undefined) throw new Error(refusal);
  }

  unmount(): void {
    spawnSync("umount", [this.folder]);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** @returns why it was refused */
function mount(...given: string[]): string | undefined {
  const { status, stderr, error } = spawnSync("mount", given, { encoding: "utf8" });
  return status === 0 ? undefined : (error?.message ?? stderr.trim());
}
