// The nodes of the workflow that fails and that the agent repairs. Node 3 reads a field that doesn't exist.
import { appendFileSync } from "node:fs";

interface Release {
  version: string;
  notes: string[];
}

const done = (what: string): void => appendFileSync(process.env["LEDGER"] ?? "", `${what}\n`);

/** A side effect that must not happen twice. */
export function createIssue({ version }: Release): { notes: string[] } {
  done(`issue for ${version}`);
  return { notes: ["issue created"] };
}

/** Another one. */
export function sendMessage({ version }: Release): { notes: string[] } {
  done(`message about ${version}`);
  return { notes: ["message sent"] };
}

export function publish(release: Release): { notes: string[] } {
  const tag = (release as unknown as { tag: { name: string } }).tag.name;
  done(`published ${tag}`);
  return { notes: [`published ${tag}`] };
}
