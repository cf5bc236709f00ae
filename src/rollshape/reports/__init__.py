"""What people read: figures, tables, and one self-contained page."""
