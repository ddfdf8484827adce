import { server } from "./server";
import { store } from "./store";

type Theme = "auto" | "light" | "dark";
const THEMES: readonly Theme[] = ["auto", "light", "dark"];

const remembered = localStorage.getItem("turns.theme") as Theme | null;
export const theme = store<Theme>(remembered !== null && THEMES.includes(remembered) ? remembered : "auto");

/** The stylesheet has both; `auto` follows the system. */
function show(): void {
  document.documentElement.dataset["theme"] = theme.get();
}
show();

/** As the system, light, dark. */
export function nextTheme(): void {
  theme.set(THEMES[(THEMES.indexOf(theme.get()) + 1) % THEMES.length] ?? "auto");
  localStorage.setItem("turns.theme", theme.get());
  show();
}

/** What the program was started with holds until somebody chooses. */
export function themeOfServer(): void {
  const wanted = server.get()?.theme;
  if (remembered !== null || wanted === undefined) return;
  theme.set(wanted);
  show();
}
