const AFTER_MS = 1_000;
const EVERY_MS = 200;

/**
 * Tells on stderr how far work has come, if that's a terminal, and not before a second has passed.
 *
 * @returns call it with the news, and with undefined at the end
 */
export function startProgress(): (news: string | undefined) => void {
  const { stderr } = process;
  if (!stderr.isTTY) return () => undefined;
  const since = Date.now();
  let last = 0;
  return (news) => {
    const now = Date.now();
    if (news === undefined) {
      if (last > 0) stderr.write("\r\u001b[K");
    } else if (now - since >= AFTER_MS && now - last >= EVERY_MS) {
      last = now;
      stderr.write(`\r\u001b[K${news.slice(0, Math.max(0, stderr.columns - 1))}`);
    }
  };
}
