"""The long-lived process around vLLM: routes, blobs, captures, plugin and seams."""
