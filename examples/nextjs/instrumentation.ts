/** Next.js calls it once, when the server starts. */
export async function register(): Promise<void> {
  if (process.env.NEXT_RUNTIME !== "nodejs") return;
  const { drainOnSigterm } = await import("./lib/agent");
  drainOnSigterm();
}
