/* What JSX becomes; the build gives it to every file. */
export { Fragment, h } from "preact";
