/** What we log through: pino's shape, so that a pino logger can be passed as it is. */
export interface Logger {
  debug(data: object, message: string): void;
  info(data: object, message: string): void;
  warn(data: object, message: string): void;
  error(data: object, message: string): void;
}

/** Silent but for warnings and errors, which go to stderr. */
export const defaultLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: (data, message) => write("warning", data, message),
  error: (data, message) => write("error", data, message),
};

function write(level: string, data: object, message: string): void {
  process.stderr.write(`langgraph-checkpoint-turns ${level}: ${message} ${JSON.stringify(data)}\n`);
}
