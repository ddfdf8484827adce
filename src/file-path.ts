import { describe, TurnsError } from "./errors";

/** @throws {TurnsError} INVALID_OPTION unless it is the path of a file; an in-memory database has none */
export function refuseNoFile(what: string, path: unknown, expected: string): void {
  refuseUrl(what, path);
  if (typeof path === "string" && path.trim() !== "" && path !== ":memory:" && !path.includes("\0")) return;
  throw new TurnsError("INVALID_OPTION", {
    problem: `${what} is ${describe(path)}.`,
    remedy: `Pass ${expected}, as a non-empty string without NUL characters.`,
  });
}

/**
 * Drivers differ in what they make of `file:…`: one takes it for a name.
 *
 * @param call what takes the path
 * @throws {TurnsError} INVALID_OPTION for the URL of a file, as text or as an object
 */
export function refuseUrl(what: string, given: unknown, call = ""): void {
  const url = given instanceof URL ? given.href : given;
  if (typeof url !== "string" || !/^file:/i.test(url)) return;
  const path = /^file:\/\//i.test(url)
    ? `fileURLToPath(${JSON.stringify(url)})`
    : JSON.stringify(decoded(url.slice("file:".length).replace(/[?#].*/, "")));
  // "file:" alone names no file.
  const known = path === '""' ? '"agent.db"' : path;
  const example = call === "" ? known : `${call}(${known})`;
  throw new TurnsError("INVALID_OPTION", {
    problem: `${what} is ${describe(url)}, which is a URL.`,
    remedy: `Pass a path: ${example}${path.startsWith("file") ? ', with fileURLToPath from "node:url"' : ""}. Nothing was created.`,
  });
}

/** What isn't escaped properly is a plain name. */
function decoded(path: string): string {
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}
