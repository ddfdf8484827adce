/** The logger interface: pino's shape, so that you can pass a pino logger as it is. */
export interface Logger {
  debug(data: object, message: string): void;
  info(data: object, message: string): void;
  warn(data: object, message: string): void;
  error(data: object, message: string): void;
}

/** Writes warnings and errors to stderr, and nothing else. */
export const defaultLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: (data, message) => write("warning", data, message),
  error: (data, message) => write("error", data, message),
};

function write(level: string, data: object, message: string): void {
  process.stderr.write(`langgraph-checkpoint-turns ${level}: ${message} ${JSON.stringify(data)}\n`);
}

/** The same logger, but its errors fail nobody's work: there's nobody left to tell. */
export function harmless(logger: Logger): Logger {
  const at = (level: keyof Logger) => (data: object, message: string) => {
    try {
      const told: unknown = logger[level](data, message);
      if (told instanceof Promise) told.catch(() => undefined);
    } catch {
      // As for listeners of events, an error must not pass for a failed save.
    }
  };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}
