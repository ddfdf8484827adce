import { rmSync } from "node:fs";

/** After all suites. */
export default function teardown(): void {
  const { TURNS_BUILDS: folder } = process.env;
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
}
