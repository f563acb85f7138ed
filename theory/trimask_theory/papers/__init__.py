"""What only the papers need: attacks, audits, and statements that no part of the product uses."""
