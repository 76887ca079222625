import { render } from "preact";
import { App } from "./app";
import "./style/fonts.css";
import "./style/base.css";
import "./style/shell.css";
import "./style/charts.css";
import "./style/views.css";

const place = document.getElementById("app")!;
place.replaceChildren();
render(<App />, place);
