import { render } from "preact";
import { App } from "./app";
import { listen } from "./live";

const page = document.getElementById("page");
if (page !== null) render(<App />, page);
listen();
