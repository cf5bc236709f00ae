"""Rollshape's predictions held against the real libraries; runs only where they are installed."""
