"""From an invitation to a receipt: what a device sends, keeps and can take back."""
