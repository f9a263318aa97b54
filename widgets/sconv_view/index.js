// The convolution view for hosts with Python behind them: notebooks by anywidget, the app by its own shim.

import { render } from "./view.js";

export default { render };
