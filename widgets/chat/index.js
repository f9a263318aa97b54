// The chat for hosts with Python behind them.

import { render } from "./view.js";

export default { render };
